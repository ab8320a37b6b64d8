"""The template for those who deploy with Terraform or AWS CDK, made from template.yaml."""
