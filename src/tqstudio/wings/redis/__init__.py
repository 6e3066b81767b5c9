"""Redis: tells web sites what happens, and takes jobs from a stream, if `redis_url` is set."""
