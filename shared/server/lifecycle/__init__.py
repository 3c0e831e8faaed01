"""How a service begins and ends: signals, and what it tells the service manager that started it."""
