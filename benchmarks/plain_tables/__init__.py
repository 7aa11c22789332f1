"""Small Django app with hand-made transcript tables, used by the plain ORM and the plain SQL contenders."""
