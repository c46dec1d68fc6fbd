"""The cluster that the Python client's tests run on, by the certificates in KEVEL_PKI. The tests import this module as
`base` of `e2e_test`, which the published package leaves out."""

import importlib
import os

import yaml

# kubernetes or kubernetes.aio, where the copy stands
client = importlib.import_module(__package__.rpartition(".")[0] + ".client")


def get_e2e_configuration():
    pki = os.environ["KEVEL_PKI"]
    with open(os.path.join(pki, "admin.kubeconfig")) as file:
        kubeconfig = yaml.safe_load(file)
    configuration = client.Configuration()
    configuration.host = kubeconfig["clusters"][0]["cluster"]["server"]
    configuration.ssl_ca_cert = os.path.join(pki, "ca.crt")
    configuration.cert_file = os.path.join(pki, "admin.crt")
    configuration.key_file = os.path.join(pki, "admin.key")
    return configuration
