"""NCCL's RAS without NCCL: reports as its versions write them, and a server that speaks its protocol."""
