"""Three agents that ask each other over HTTP, each a process of its own, any of which may be killed at any moment.

`desk` plans a delivery: it asks `stock` for the weight and `courier` for a price. `courier` asks `stock` for the weight
too, and `stock` asks `desk` how much was ordered. While an agent waits it holds nothing in memory: whichever process of
it is there when the answers have come goes on.

`agent.py` is the durable loop, `skills.py` what each agent can do, `wire.py` the HTTP between them.

    python -m examples.peers_over_http desk        # three terminals, one agent each
    python -m examples.peers_over_http stock
    python -m examples.peers_over_http courier
    python -m examples.peers_over_http ask 17 Bergen
"""
