"""LangGraph agent that is killed inside a tool and continues: no network, no key. Needs the extra `langgraph`.

python -m examples.langgraph_refunds
"""
