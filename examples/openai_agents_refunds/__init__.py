"""Agent of the OpenAI Agents SDK that is killed inside a tool and continues: no network, no key.

Needs the extra `openai-agents`.

python -m examples.openai_agents_refunds
"""
