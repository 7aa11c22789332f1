"""Three agents that ask each other over HTTP, each in a process that may be killed at any moment.

`desk` plans a delivery: it asks `stock` for the weight and `courier` for a price. `courier` asks `stock` for the weight
too, and `stock` asks `desk` how much was ordered. An agent that waits holds nothing in memory: any of its processes can
continue when the answers have arrived.

`agent.py` is the durable loop, `skills.py` the work of each agent, `http_transport.py` the HTTP between them.

    python -m examples.peers_over_http desk        # three terminals, one agent each
    python -m examples.peers_over_http stock
    python -m examples.peers_over_http courier
    python -m examples.peers_over_http ask 17 Bergen
"""
