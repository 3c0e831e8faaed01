"""The probe: what ranks load to be asked for their flight record. `inside` is all that they ever see of us."""
