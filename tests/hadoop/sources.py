"""The Java classes that run Hadoop's abstract tests on a branch, and the settings of its client."""

SUPPORTED = (
    "create-visibility-delayed",
    "is-case-sensitive",
    "rejects-seek-past-eof",
    "rename-returns-false-if-dest-exists",
    "rename-returns-false-if-source-missing",
    "supports-atomic-directory-delete",
    "supports-atomic-rename",
    "supports-content-check",
    "supports-getfilestatus",
    "supports-positioned-readable",
    "supports-seek",
    "supports-strict-exceptions",
)
"""What the client and the server do, by Hadoop's names. What is missing here is skipped."""

_CONTRACTS = [
    "Append",
    "BulkDelete",
    "Concat",
    "ContentSummary",
    "CopyFromLocal",
    "Create",
    "Delete",
    "Etag",
    "GetEnclosingRoot",
    "GetFileStatus",
    "LeaseRecovery",
    "Mkdir",
    "Open",
    "PathHandle",
    "Rename",
    "RootDirectory",
    "SafeMode",
    "Seek",
    "SetTimes",
    "StreamIOStatistics",
    "Unbuffer",
    "VectoredRead",
]

_IMPORTS = """
package graveler;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.contract.*;
"""

_SERVED = """
public class Served extends AbstractFSContract {
  static final URI ADDRESS = URI.create(System.getProperty("graveler.address"));
  static final String BRANCH = System.getProperty("graveler.branch");

  static Configuration configured(Configuration conf) {
    for (String pair : System.getProperty("graveler.settings").split(",")) {
      String[] parts = pair.split("=", 2);
      conf.set(parts[0], parts[1]);
    }
    return conf;
  }

  static FileSystem fileSystem() throws java.io.IOException {
    return FileSystem.get(ADDRESS, configured(new Configuration()));
  }

  public Served(Configuration conf) { super(configured(conf)); }
  public FileSystem getTestFileSystem() throws java.io.IOException { return fileSystem(); }
  public String getScheme() { return ADDRESS.getScheme(); }
  public Path getTestPath() { return new Path(BRANCH + "/contract"); }
}
"""

_CONTRACT = """
public class Test@ extends AbstractContract@Test {
  protected AbstractFSContract createContract(Configuration conf) { return new Served(conf); }
}
"""

_VECTORED = """
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;
@ParameterizedClass @MethodSource("params")
public class TestVectoredRead extends AbstractContractVectoredReadTest {
  public TestVectoredRead(String buffers) { super(buffers); }
  protected AbstractFSContract createContract(Configuration conf) { return new Served(conf); }
}
"""

_BASE = """
import org.junit.jupiter.api.BeforeEach;
public class TestBase extends FileSystemContractBaseTest {
  @BeforeEach public void open() throws Exception {
    fs = Served.fileSystem();
    fs.mkdirs(getTestBaseDir());
  }
  protected Path getTestBaseDir() { return new Path(Served.BRANCH + "/base"); }
  protected String getDefaultWorkingDirectory() {
    return fs.getWorkingDirectory().toUri().getPath();
  }
}
"""

_MAIN = """
public class TestMain extends FSMainOperationsBaseTest {
  public TestMain() { super(Served.BRANCH + "/main"); }
  protected FileSystem createFileSystem() throws Exception { return Served.fileSystem(); }
  protected Path getDefaultWorkingDirectory() { return fSys.getWorkingDirectory(); }
}
"""

_CONTEXT = """
import org.junit.jupiter.api.BeforeEach;
public class TestContext extends FileContextMainOperationsBaseTest {
  @BeforeEach public void setUp() throws Exception {
    fc = FileContext.getFileContext(Served.ADDRESS, Served.configured(new Configuration()));
    super.setUp();
  }
  protected FileContextTestHelper createFileContextHelper() {
    return new FileContextTestHelper(Served.BRANCH + "/context");
  }
  protected boolean listCorruptedBlocksSupported() { return false; }
  protected Path getDefaultWorkingDirectory() { return fc.getWorkingDirectory(); }
}
"""


def sources() -> dict[str, str]:
    """Return the text of each class by its name."""
    classes = {f"Test{name}": _CONTRACT.replace("@", name) for name in _CONTRACTS}
    odd = classes["TestGetEnclosingRoot"]
    classes["TestGetEnclosingRoot"] = odd.replace("RootTest", "Root")
    classes |= {"Served": _SERVED, "TestVectoredRead": _VECTORED}
    classes |= {"TestBase": _BASE, "TestMain": _MAIN, "TestContext": _CONTEXT}
    return {name: _IMPORTS + text for name, text in classes.items()}
