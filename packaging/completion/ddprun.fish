ddprun --print-completion fish | source
