"""Names that are never run, by what they do. An unknown name asks; one that stands here is denied at once."""

from __future__ import annotations

import re
from typing import Final

from tools.host.policy.verdict import Finding, deny

_CLASSES: Final = (
    (
        "shape",
        "is a word of the shell itself",
        """
        . : [ [[ alias bg bind break builtin caller case cd command compgen complete continue coproc
        declare dirs disown do done elif else enable esac eval exec exit export false fc fg fi for
        function getopts hash help history if in jobs let local logout mapfile popd printf pushd read
        readarray readonly return select set shift shopt source suspend test then time times trap type
        typeset ulimit umask unalias unset until wait while
        """,
    ),
    (
        "interp",
        "runs any code",
        """
        sh bash dash ash zsh fish ksh mksh csh tcsh rbash busybox toybox python python2 python3 pypy
        perl ruby node nodejs deno bun lua luajit php tclsh wish expect R Rscript java groovy scala ghci
        go cargo rustc gcc cc g++ clang make cmake ninja m4 bc dc ed ex vim vi nvim emacs nano pico gdb
        lldb cuda-gdb gcore gstack pstack ipython jupyter torchrun accelerate ray uvicorn gunicorn
        sglang vllm openssl gpg psql mysql mysqldump mariadb sqlite3 redis-cli mongosh mongo etcdctl
        debugfs xfs_db compute-sanitizer rsh octave julia ocaml swipl sqlplus clickhouse-client cython
        """,
    ),
    (
        "wrapper",
        "runs what it is given, out of sight",
        """
        env xargs parallel nohup setsid watch stdbuf unbuffer script screen tmux su doas pkexec runuser
        sudoedit sg newgrp chroot unshare nsenter firejail bwrap systemd-run systemd-nspawn
        systemd-inhibit machinectl start-stop-daemon daemon flock setpriv setarch linux32 linux64 capsh
        fakeroot ld.so numad cgexec at batch run-parts entr ltrace valgrind bpftrace trace-cmd nsys ncu
        nvprof rocprof omnitrace lxc-attach lxc-execute lxc incus systemd-cat systemd-run0 run0 sysdig
        dropwatch execsnoop opensnoop execsnoop-bpfcc opensnoop-bpfcc bpftool perf-archive sudo-rs chpst
        envdir runcon setuidgid softlimit cpulimit catchsegv rlwrap systemd-ask-password systemd-notify
        sshd choom chronic
        """,
    ),
    (
        "pager",
        "takes keys, and some of them run programs",
        """
        less more most man info view htop atop nvtop glances nmon btop mc iftop nethogs powertop
        """,
    ),
    (
        "exec-arg",
        "is a script around file names, or runs helpers",
        """
        zcat zgrep zegrep zfgrep zless zmore zdiff zcmp bzcat bzgrep xzcat xzgrep zstdgrep tar cpio pax
        zip unzip 7z ar
        """,
    ),
    (
        "net",
        "reaches another host",
        """
        ssh scp sftp rsync ssh-copy-id ssh-keyscan sshpass nc ncat netcat socat telnet ftp tftp lftp
        aria2c axel httpie http dig nslookup host drill resolvectl whois mtr arping nmap masscan tcpdump
        tshark iperf iperf3 mail sendmail mutt aws gcloud az gsutil s3cmd rclone huggingface-cli hf
        wandb modelscope docker-compose helm terraform ansible ansible-playbook nvidia-imex pdsh clush
        mpirun mpiexec srun sbatch salloc scontrol ib_write_bw ib_read_bw ib_send_bw showmount openvpn
        wg-quick ipsec strongswan lynx w3m links elinks rlogin rcp smbclient mount.nfs mount.cifs
        ldapsearch snmpwalk snmpget rpcinfo rpcclient s3fs croc magic-wormhole wormhole ngrok
        cloudflared tailscale zerotier-cli iperf2 qperf hping3 fping arp-scan ssh-agent ssh-add
        kubelogin minikube kind skopeo buildah
        """,
    ),
    (
        "write",
        "writes files or devices",
        """
        tee dd cp mv rm rmdir mkdir touch ln install truncate fallocate shred split csplit mktemp mkfifo
        mknod chmod chown chgrp chattr setfacl setfattr sync patch unlink link logger wall write mesg
        tset gzip gunzip bzip2 xz zstd lz4 sponge nvidia-bug-report.sh sos sosreport logrotate
        update-initramfs depmod mandb updatedb ldd crash makedumpfile mkdumprd systemd-tmpfiles rename
        prename pwgen dos2unix unix2dos mkswap losetup mcopy pigz pbzip2 lzma unxz unzstd ranlib strip
        objcopy patchelf setcap savelog nvidia-debugdump rocm-bandwidth-test rocprofv2 rocprofv3
        rsyslogd
        """,
    ),
    (
        "mutate",
        "changes the host",
        """
        reboot shutdown poweroff halt init telinit kexec hwclock ntpdate chronyd modprobe insmod rmmod
        umount swapoff mkfs mke2fs fsck parted wipefs sfdisk cfdisk gdisk cryptsetup hdparm blkdiscard
        resize2fs fstrim sgdisk lvcreate lvremove vgchange useradd userdel usermod groupadd passwd
        chpasswd visudo service chkconfig update-rc.d invoke-rc.d update-alternatives apt-get aptitude
        yum dnf zypper pacman apk brew npm yarn pipx poetry dnf5 microdnf ifup ifdown nmcli netplan
        dhclient ip6tables firewall-cmd ipset ipvsadm conntrack setenforce semanage restorecon chcon
        aa-enforce nvidia-settings nvidia-modprobe nvidia-persistenced mlxconfig mlxfwmanager flint mst
        mlnx_tune opensm ibportstate ibdiagnet wrmsr rdmsr setpci renice tuned localedef loadkeys
        setfont stty reset update-grub grub-install grub2-mkconfig dpkg-reconfigure cpufreq-set
        nvidia-ctk ipcrm ipcmk chsh chfn vipw vigr gpasswd newusers groupdel groupmod ebtables arptables
        iptables-restore ip6tables-restore brctl ovs-vsctl ovs-ofctl grub-reboot grub-set-default
        grub-editenv cloud-init pvcreate pvremove pvresize vgcreate vgextend vgremove vgreduce lvextend
        lvreduce lvresize lvconvert lvchange xfs_repair xfs_growfs e2fsck e2label tune2fs
        resize_reiserfs swaplabel nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-fabricmanager
        iwconfig tunctl vconfig ifenslave dbus-send gdbus qdbus k3s microk8s kubelet
        x86_energy_perf_policy intel-speed-select ksmtuned zramctl dkms mokutil sbctl snapper timeshift
        restic borg rsnapshot wodim sg_format sg_reset sg_raw nvme-cli megacli storcli perccli arcconf
        ipmi-config bmc-config ipmiconfig racadm hponcfg mount.fuse fusermount iptables-nft
        iptables-legacy iscsiadm tgtadm targetcli sm-notify rpc.mountd pam_tally2 authconfig authselect
        realm domainname nisdomainname ypdomainname blockdev cgset cgclassify chage dracut irqbalance
        mlxreg mlnx_qos puppet salt salt-call scancel systemd-sysctl
        """,
    ),
    (
        "signal",
        "sends signals, whatever they are",
        """
        kill pkill killall killall5 skill snice xkill
        """,
    ),
    (
        "load",
        "loads the GPUs or disks",
        """
        stress stress-ng fio gpu-burn gpu_burn dcgmproftester12 nvbandwidth all_reduce_perf
        p2pBandwidthLatencyTest badblocks sysbench memtester cuda-memcheck nccl-tests mbw
        """,
    ),
    (
        "secret",
        "gives out or re-encodes what redaction must see",
        """
        printenv keyctl secret-tool pass vault base64 base32 basenc xxd od hexdump rev uuencode ausearch
        auditctl ctr dbus-monitor busctl wg gpg-agent gpg2 gpgconf systemd-creds kinit op bw doppler
        sops age age-keygen ssh-keygen certutil keytool pk12util
        """,
    ),
)


# What an unknown program is told to do with something, as its first words or as an option.
_CHANGING: Final = """
    add append apply attach bind boot cancel change clean clear commit configure copy create cycle daemon-reload
    deactivate activate del delete demote deploy destroy detach disable discard dispatch down drain drop
    dump-memory edit eject enable erase eval evict exec execute expire flush force format freeze grow halt
    import init inject insert install isolate join kick kill label leave link load lock login logout make mask
    mkdir modify mount move off offline on online patch pause post power promote prune publish purge push put
    reboot rebuild reload remove rename repair replace reset resize restart restore resume revert revoke rm rmi
    rollback rotate run save scale scrub sell send set shell shutdown shrink snapshot spawn start stop suspend
    swap sync terminate thaw trim truncate umount undo uninstall unlink unload unlock unmask unmount unset up
    update upgrade upload vacuum wipe write
"""
_CHANGING_WORD: Final = re.compile(rf"({'|'.join(_CHANGING.split())})([_-].*)?")
_CHANGING_OPTION: Final = re.compile(
    r"--(set|reset|delete|remove|add|create|write|clear|clean|enable|disable|kill|stop|start|restart|reload|flush|force"
    r"|exec|execute|command|eval|output|outfile|format-disk|install|update|upgrade|upload|purge|apply|shutdown|reboot)"
    r"([-=].*)?"
)


def changes(arguments: tuple[str, ...]) -> bool:
    """Do the arguments of a program that is not known tell it to change something?"""
    words = [word.lower() for word in arguments if not word.startswith("-")][:2]
    return any(map(_CHANGING_WORD.fullmatch, words)) or any(map(_CHANGING_OPTION.fullmatch, arguments))


def _named() -> dict[str, Finding]:
    return {name: deny(tag, f"{name} {why}") for tag, why, names in _CLASSES for name in names.split()}


_NAMED: Final = _named()


def refused(name: str) -> Finding | None:
    """Why a program is never run; also under a version or variant: `python3.11`, `gcc-12`, `mkfs.ext4`, `vim.tiny`."""
    plain = (name, re.sub(r"[-.]?\d[\d.]*$", "", name), name.partition(".")[0], re.sub(r"-(nft|legacy)$", "", name))
    return next((_NAMED[each] for each in plain if each in _NAMED), None)
