"""What a rank has written to its standard output, to error files and to NCCL's debug file."""
