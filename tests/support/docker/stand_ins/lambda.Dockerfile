# A stand-in for public.ecr.aws/lambda/python:3.13 where no container registry can be reached: Debian's
# python3.13 with AWS's own runtime client and emulator, laid out and started as in AWS's image.
# Its glibc (2.41) is newer than Lambda's (2.34): what it proves is the runtime's behaviour, not portability.
ARG BASE
FROM ${BASE}
ARG BOTO3
COPY runtime.txt /tmp/
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && mkdir -p /var/task /var/lang/bin /opt \
 && ln -s /usr/bin/python3.13 /var/lang/bin/python3.13 && ln -s python3.13 /var/lang/bin/python3 \
 && python3.13 -m venv /tmp/pip \
 && /tmp/pip/bin/pip --quiet install --no-cache-dir --require-hashes --no-deps --target /var/runtime -r /tmp/runtime.txt \
 && /tmp/pip/bin/pip --quiet install --no-cache-dir --target /var/runtime "boto3==${BOTO3}" \
 && rm -rf /tmp/pip /tmp/runtime.txt
COPY --chmod=755 lambda-entrypoint.sh /
COPY --chmod=755 aws-lambda-rie /usr/local/bin/
COPY --chmod=755 bootstrap bootstrap.py /var/runtime/
ENV LANG=C.UTF-8 TZ=:/etc/localtime PATH=/var/lang/bin:/usr/local/bin:/usr/bin/:/bin:/opt/bin \
    LD_LIBRARY_PATH=/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:/var/task:/var/task/lib:/opt/lib \
    LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime
WORKDIR /var/task
ENTRYPOINT ["/lambda-entrypoint.sh"]
