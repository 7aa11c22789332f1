"""Agent of Pydantic AI that is killed inside a tool and continues: no network, no key. Needs the extra `pydantic-ai`.

python -m examples.pydantic_ai_refunds
"""
