"""Copies published ladders to object storage, and removes them there.

    s3://BUCKET/PREFIX/<slug>/v<N>/<rung>/…      uploaded first, never changed
    s3://BUCKET/PREFIX/<slug>/master.m3u8        uploaded last: names a generation that is whole there

A ladder is always encoded, verified and published in the home first (`Home.bucket_copy`).
"""
