// Proves membership with a secret that all agents of the user, or of the launch, can read.
#pragma once

#include "rendezvous/handshake.hpp"

namespace ddprun::net {

// Seals with authenticated encryption (XSalsa20-Poly1305), so that only who holds the key can read or make a
// proof. Throws Error when the system gives no randomness.
rendezvous::Authenticator make_key_authenticator(
    const SecretKey& key, rendezvous::ProofMethod method = rendezvous::ProofMethod::key_file);

// Derives the key from a job's secret (BLAKE2b); the same secret gives another key for another method.
SecretKey derive_key(rendezvous::ProofMethod method, const std::string& secret);

// Uses the first authenticator's methods first; both keep their own.
rendezvous::Authenticator join_authenticators(rendezvous::Authenticator first,
                                              rendezvous::Authenticator second);

// Makes an unpredictable key, never the same twice.
SecretKey make_random_key();

// Makes a new pair of X25519 keys (libsodium's crypto_kx; the member is its client).
rendezvous::KeyExchange make_key_exchange();

// Makes the secret of a self-launch, as text for an environment variable: 64 hexadecimal digits.
std::string make_secret_text();
// Makes one from another secret by a hash: it follows from that secret, which cannot be derived from it. The
// same on all hosts.
std::string make_secret_text_from(std::string_view secret);

}  // namespace ddprun::net
