"""A refund desk: an agent that survives being killed at any moment.

`agent.py` is the loop, and all there is to making it durable. The rest is what every agent has: a model (a scripted
one, so that nothing leaves this machine), tools that change the world, a plan and a budget.
"""
