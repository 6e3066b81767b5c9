"""Publishes messages for web sites to Redis, and takes jobs from a stream there, if `redis_url` is set."""
