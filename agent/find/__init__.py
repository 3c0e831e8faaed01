"""Find: which processes of this node are ranks of which jobs, and which launchers and pods they belong to."""
