"""Refund desk: an agent that survives being killed at any moment.

`agent.py` is the loop, and contains all that makes it durable. The rest is what every agent has: a model (a scripted
one, so that nothing leaves this machine), tools with side effects, a plan and a budget.
"""
