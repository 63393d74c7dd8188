from local.conftest import machine  # noqa: F401
