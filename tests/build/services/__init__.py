"""Collectors and what stands beside them: databases, certificates, clusters, discovery."""
