"""Agent of the Claude Agent SDK that is killed inside a tool and continues: no network, no key.

It needs the extra `claude`: python -m examples.claude_refunds
"""
