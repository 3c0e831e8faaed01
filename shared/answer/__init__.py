"""What users and bots get: the contract."""
