# The function as a container image. The context is build/image, which `make sam-build PACKAGE=image` fills.
ARG BASE_IMAGE=public.ecr.aws/lambda/python:3.13
FROM ${BASE_IMAGE}
COPY opt/ /opt/
COPY task/ /var/task/
CMD ["handler.app.lambda_handler"]
