"""The worker program: claims jobs, encodes their ladders and reports the outcomes, through the API only."""
