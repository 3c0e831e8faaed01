"""How far each rank is in each group, and what it called there: one table for what logs and NCCL RAS tell."""
