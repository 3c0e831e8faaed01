"""Tests that mirror the rooms: one file per module."""
