#!/bin/sh
# As in AWS's image: the emulator in front of the runtime, unless a real runtime API is there.
if [ $# -ne 1 ]; then
    echo "entrypoint requires the handler name to be the first argument" >&2
    exit 142
fi
export _HANDLER="$1"
if [ -z "${AWS_LAMBDA_RUNTIME_API}" ]; then
    exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
fi
exec /var/runtime/bootstrap
