"""Agents: fake ones, real ones, ones that behave badly, and those who ask them."""
