"""Tests on what is deployed, as far as they go without a running systemd and without a container engine."""
