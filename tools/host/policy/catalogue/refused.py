"""Names that are never run, by what they do. An unknown name asks; one that stands here is denied at once."""

from __future__ import annotations

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
        lldb cuda-gdb gcore ipython jupyter torchrun accelerate ray uvicorn gunicorn sglang vllm openssl
        gpg
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
        nvprof rocprof omnitrace
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
        mpirun mpiexec srun sbatch salloc scontrol ib_write_bw ib_read_bw ib_send_bw
        """,
    ),
    (
        "write",
        "writes files or devices",
        """
        tee dd cp mv rm rmdir mkdir touch ln install truncate fallocate shred split csplit mktemp mkfifo
        mknod chmod chown chgrp chattr setfacl setfattr sync patch unlink link logger wall write mesg
        tset gzip gunzip bzip2 xz zstd lz4 sponge nvidia-bug-report.sh sos sosreport logrotate
        update-initramfs depmod mandb updatedb ldd crash
        """,
    ),
    (
        "mutate",
        "changes the host",
        """
        reboot shutdown poweroff halt init telinit kexec hwclock ntpdate chronyd modprobe insmod rmmod
        umount losetup swapoff mkswap mkfs mke2fs fsck parted wipefs sfdisk cfdisk gdisk cryptsetup
        hdparm blkdiscard resize2fs fstrim sgdisk lvcreate lvremove vgchange useradd userdel usermod
        groupadd passwd chpasswd visudo service chkconfig update-rc.d invoke-rc.d update-alternatives
        apt-get aptitude yum dnf zypper pacman apk brew npm yarn pipx poetry dnf5 microdnf ifup ifdown
        nmcli netplan dhclient ip6tables firewall-cmd ipset ipvsadm conntrack setenforce semanage
        restorecon chcon aa-enforce nvidia-settings nvidia-modprobe nvidia-persistenced mlxconfig
        mlxfwmanager flint mst mlnx_tune opensm ibportstate ibdiagnet wrmsr rdmsr setpci renice tuned
        localedef loadkeys setfont stty reset update-grub grub-install grub2-mkconfig dpkg-reconfigure
        cpufreq-set nvidia-ctk
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
        p2pBandwidthLatencyTest badblocks sysbench memtester
        """,
    ),
    (
        "secret",
        "gives out or re-encodes what redaction must see",
        """
        printenv keyctl secret-tool pass vault base64 base32 basenc xxd od hexdump rev uuencode ausearch
        auditctl ctr dbus-monitor busctl
        """,
    ),
)


def _named() -> dict[str, Finding]:
    return {name: deny(tag, f"{name} {why}") for tag, why, names in _CLASSES for name in names.split()}


REFUSED: Final = _named()
