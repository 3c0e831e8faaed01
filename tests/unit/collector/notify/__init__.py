"""Tests of notifying: each service against a server of its kind."""
