/**
 * The hosts of public package registries: what `packages` lets a sandbox read. Reading only: nothing is published, and the
 * registries that need more than GET to read are not here.
 */
export const PACKAGE_REGISTRIES: Readonly<Record<string, readonly string[]>> = {
  Debian: ['deb.debian.org', 'security.debian.org', 'ftp.debian.org', 'snapshot.debian.org'],
  Ubuntu: ['archive.ubuntu.com', 'security.ubuntu.com', 'ports.ubuntu.com'],
  Alpine: ['dl-cdn.alpinelinux.org'],
  Fedora: ['dl.fedoraproject.org', 'mirrors.fedoraproject.org'],
  PyPI: ['pypi.org', 'files.pythonhosted.org'],
  conda: ['conda.anaconda.org', 'repo.anaconda.com'],
  npm: ['registry.npmjs.org'],
  Yarn: ['registry.yarnpkg.com', 'repo.yarnpkg.com'],
  JSR: ['jsr.io', 'npm.jsr.io'],
  'crates.io': ['crates.io', 'index.crates.io', 'static.crates.io'],
  Rust: ['static.rust-lang.org'],
  Go: ['proxy.golang.org', 'sum.golang.org'],
  Maven: ['repo.maven.apache.org', 'repo1.maven.org'],
  Gradle: ['plugins.gradle.org', 'services.gradle.org', 'downloads.gradle.org'],
  RubyGems: ['rubygems.org', 'index.rubygems.org'],
  Packagist: ['packagist.org', 'repo.packagist.org'],
  NuGet: ['api.nuget.org'],
  Hex: ['hex.pm', 'repo.hex.pm', 'builds.hex.pm'],
  Hackage: ['hackage.haskell.org'],
  CPAN: ['www.cpan.org', 'cpan.metacpan.org'],
  CRAN: ['cran.r-project.org', 'cloud.r-project.org'],
  Pub: ['pub.dev'],
};
