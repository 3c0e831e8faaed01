"""The collector: gathers what the agents see, judges it, keeps the verdicts and shows them."""
