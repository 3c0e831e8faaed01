"""Agents and pods found by watching the Kubernetes API."""
