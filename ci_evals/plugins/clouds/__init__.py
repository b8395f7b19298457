"""Providers of clouds that sign their calls: Amazon Bedrock and Google Vertex AI."""
