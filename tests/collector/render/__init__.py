"""Tests of the renderings: golden files for whole verdicts, tables for the parts."""
