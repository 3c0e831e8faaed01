"""What is hidden: secrets in command lines, log lines and paths, by name, by shape and by known options."""
