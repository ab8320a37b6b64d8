# The function as a container image. The context is build/image, which `make sam-build PACKAGE=image` fills.
# COLDFORGE_LAMBDA_IMAGE names another base; docs/contributing.md says how this one is moved on. It is of 29 July 2026.
ARG BASE_IMAGE=public.ecr.aws/lambda/python:3.13@sha256:a2599a8364d1b56a6b39fcf83116fb33a69c5a0dfabdcbff618c9fe50bc00eab
FROM ${BASE_IMAGE}
COPY opt/ /opt/
COPY task/ /var/task/
CMD ["handler.app.lambda_handler"]
