"""Environments that an OpenEnv server serves, played over its WebSocket protocol."""
