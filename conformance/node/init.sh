#!/usr/bin/env bash
# The first process of a node's namespaces: conformance/node/init.sh FOLDER ADDRESS
# Everything that a node leaves on a machine goes to FOLDER or into what is mounted here, and ends with this process.
set -euo pipefail
folder=$1 address=$2

# Programs of the node write where they always do; containers' mounts are seen by all of them.
mount --make-rshared /
mkdir -p "$folder"/{lib,log,manifests}
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/log" /var/log
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/lock

# A network of its own. The route leads nowhere: programs ask for one to learn their own address.
hostname node1
ip link set lo up
ip link add node0 type bridge
ip address add "$address/24" dev node0
ip link set node0 up
ip route add default via "${address%.*}.254" dev node0
for setting in net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.bridge.bridge-nf-call-iptables=1; do
  sysctl -qw "$setting" || echo "not set: $setting"
done

touch "$folder/ready"
# Orphans come here; `wait` buries them.
while :; do sleep 1000 & wait $!; done
