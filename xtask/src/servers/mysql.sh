# Fetches MySQL from Debian's unstable suite into the folder $1, with every library it needs and the C library of its
# own: nothing of the machine's packages changes. $2 is the archive that this machine is set up with.
set -e
folder=$1 archive=$2
apt=$folder/apt
mkdir -p "$apt/parts" "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $archive sid main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<SETTINGS
Dir::Etc "$apt"; Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "$apt/parts";
Dir::State "$apt/state"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
APT::Architectures "amd64"; APT::Install-Recommends "false"; APT::Sandbox::User "root";
Acquire::Check-Valid-Until "false";
SETTINGS
# A mirror may be days behind, which is as good for a test; its signature is checked.
export APT_CONFIG="$apt/apt.conf"
apt-get -qq update
apt-get -qq -y --download-only install mysql-server-core >"$apt/log"
# Debian's merged folders, so that all packages unpack into one tree.
for name in bin sbin lib lib64; do
    mkdir -p "$folder/usr/$name"
    ln -s "usr/$name" "$folder/$name"
done
for package in "$apt"/cache/archives/lib*.deb "$apt"/cache/archives/mysql*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --keep-directory-symlink --no-same-owner \
        --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/share/locale' --exclude '*perl*'
done
rm -rf "$apt"
# What does not start is not kept.
"$folder/usr/lib64/ld-linux-x86-64.so.2" --library-path "$folder/usr/lib/x86_64-linux-gnu" \
    "$folder/usr/sbin/mysqld" --no-defaults --version >"$folder/version"
