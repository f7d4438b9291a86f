"""Environments of this package in other libraries' form: Gymnasium, OpenEnv, skyrl-gym, verifiers."""
