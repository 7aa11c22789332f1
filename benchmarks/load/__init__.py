"""Load generator: fills a PostgreSQL database with as many sessions as an installation has after years."""
