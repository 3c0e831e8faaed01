"""Agents that register themselves: their leases, who may hold them, and how leases outlive a restart."""
