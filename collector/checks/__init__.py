"""What is wrong, or risky, in how a job was started: pure rules over snapshots, each silent where all is well."""
