"""Agent of Strands that is killed inside a tool and continues: no network, no key. Needs the extra `strands`.

python -m examples.strands_refunds
"""
