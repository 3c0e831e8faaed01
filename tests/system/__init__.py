"""Tests of whole programs: real jobs, clusters, services and packages."""
