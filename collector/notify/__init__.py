"""Notify: incidents to Alertmanager, PagerDuty, Slack and webhooks, through the outbox in the store."""
