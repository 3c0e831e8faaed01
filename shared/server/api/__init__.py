"""What a service says of itself: its OpenAPI document, and the page that shows it."""
